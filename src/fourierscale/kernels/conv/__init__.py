"""The Fourier layers: one product of channels per frequency."""
