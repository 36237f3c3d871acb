"""The networks that the paper compares with, one file each, in two common frames.

Importing a file registers its models; nothing is built until ``create_model`` is called.
"""

from fourierscale.lab.baselines import cnn, disco, dss, fourier_cnn, per_resolution, sesn, si_convnet, small, ss_cnn

__all__ = ["cnn", "disco", "dss", "fourier_cnn", "per_resolution", "sesn", "si_convnet", "small", "ss_cnn"]
