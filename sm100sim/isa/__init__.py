"""Instruction lowering: one file per family, `assemble` for a whole kernel."""
