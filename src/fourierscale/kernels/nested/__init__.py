"""The nested activation: norm, activation and pooling of every level."""
