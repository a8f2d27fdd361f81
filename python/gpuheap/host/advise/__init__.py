"""`gpuheap host advise`: measures the modes, evaluates the paper's rules (docs/host.md), and recommends a mode."""
