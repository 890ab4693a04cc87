"""How the bundled models were made, and how to make a partner for another vocabulary."""

import os

# Muon works in bfloat16, and some virtual CPUs announce AMX instructions that they do not have.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
