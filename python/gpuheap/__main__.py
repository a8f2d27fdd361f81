"""`python -m gpuheap`."""

from gpuheap.cli import main

main()
