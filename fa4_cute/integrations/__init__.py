"""Other programs call this attention by names of their own; nothing happens until one is imported.

``fa4_cute.integrations.torch_sdpa`` for ``torch.nn.attention``, and
``fa4_cute.integrations.transformers`` for Hugging Face's transformers.
"""
