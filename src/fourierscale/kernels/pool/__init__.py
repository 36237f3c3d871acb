"""The pooling of the head: every level on one grid, the largest or mean sample of each window."""
