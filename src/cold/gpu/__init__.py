"""Kernels for a GPU, in Triton: each is one launch where plain torch needs several, up to dozens.

Nothing here is imported without a GPU. Every kernel has a plain version, which is what a CPU runs; tests hold the two
against each other.
"""
