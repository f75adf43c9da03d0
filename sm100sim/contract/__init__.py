"""What the Python side and the C engine agree on; `engine/contract/*.h` are generated from it.

`codes.py` has the numbers that stand for words, `forms.py` the modifiers of each engine
instruction, `records.py` the structures and functions that cross the border, `header.py` writes
the headers:

    python -m sm100sim.contract.header

`load_engine` refuses an engine that was built from other headers.
"""
