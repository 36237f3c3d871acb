"""GPU kernels in Triton; imported only where they run. ``norms`` and ``largest`` are for the baselines."""
