"""What makes networks fast: loops and convolutions with gradients written out, and kernels for GPUs."""
