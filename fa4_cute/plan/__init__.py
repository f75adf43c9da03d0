"""Everything about the kernels that is an integer: tiles, memory maps, barriers, descriptors.

Nothing here imports the DSL or torch. Reading order: ``hardware`` and ``dtypes`` (facts),
``tile_config`` -> ``kv_budget`` -> ``config`` (derivations) and ``config_limits`` (refusals),
``smem_layout`` and ``tmem`` (memory maps), ``mbars`` and ``pipeline_plan`` (synchronisation),
``umma``, ``mma_plans`` and ``exp2_plan`` (arithmetic), ``tiles`` and ``schedule`` (who does what);
``depth512_*`` are the same subjects for the CTA-pair kernel.
"""
