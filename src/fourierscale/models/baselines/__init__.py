"""The networks that the paper compares with, one file each, in two common frames."""
