"""Real images, verified, at every resolution: sources, splits, scaled datasets and protocols by name.

``import fourierscale.data`` needs numpy and torch alone; Pillow, pooch and the rest are imported by the functions that
use them.
"""

from fourierscale.data.augment import Augmentation, get_augmentation, list_augmentations
from fourierscale.data.batching import ResolutionBatchSampler, make_loader
from fourierscale.data.cache import cache_folder
from fourierscale.data.darcy import random_permeability, solve_darcy
from fourierscale.data.errors import (
    CorruptFileError,
    DataError,
    FormatError,
    MissingDataError,
    SourceError,
    UnknownNameError,
)
from fourierscale.data.fields import FieldPairs, make_navier_stokes, read_fields
from fourierscale.data.folder import ImageFolder
from fourierscale.data.idx import read_idx, write_idx
from fourierscale.data.loading import ScaledSplits, Scaling, load_protocol
from fourierscale.data.mask_folder import MaskSurvey, survey_masks
from fourierscale.data.navier_stokes import random_vorticity, solve_navier_stokes
from fourierscale.data.pair_loading import load_fields, load_masks
from fourierscale.data.paired import PairedDataset, targets_at
from fourierscale.data.progress import ProgressCallback
from fourierscale.data.protocols import Protocol, find_protocol, list_protocols
from fourierscale.data.sample import sample_folder
from fourierscale.data.scaled import Batch, BatchIndices, ScaledDataset
from fourierscale.data.sources import CachedFile, RawImages, get_dataset, verify_cache
from fourierscale.data.splits import assign_resolutions, split_classes, split_hash, stratified_split, subset
from fourierscale.data.steps import CircularShift, Colours, Cutout, HorizontalFlip, RandomCrop, RandomScaling, Step
from fourierscale.data.stored import SizedImages, StreamedImages
from fourierscale.data.survey import FolderOptions, Survey, survey_folder
from fourierscale.data.warp import Warp
from fourierscale.functional.enlarging import enlarge_to

__all__ = [
    "Augmentation",
    "Batch",
    "BatchIndices",
    "CachedFile",
    "CircularShift",
    "Colours",
    "CorruptFileError",
    "Cutout",
    "DataError",
    "FieldPairs",
    "FolderOptions",
    "FormatError",
    "HorizontalFlip",
    "ImageFolder",
    "MaskSurvey",
    "MissingDataError",
    "PairedDataset",
    "ProgressCallback",
    "Protocol",
    "RandomCrop",
    "RandomScaling",
    "RawImages",
    "ResolutionBatchSampler",
    "ScaledDataset",
    "ScaledSplits",
    "Scaling",
    "SizedImages",
    "SourceError",
    "Step",
    "StreamedImages",
    "Survey",
    "UnknownNameError",
    "Warp",
    "assign_resolutions",
    "cache_folder",
    "enlarge_to",
    "find_protocol",
    "get_augmentation",
    "get_dataset",
    "list_augmentations",
    "list_protocols",
    "load_fields",
    "load_masks",
    "load_protocol",
    "make_loader",
    "make_navier_stokes",
    "random_permeability",
    "random_vorticity",
    "read_fields",
    "read_idx",
    "sample_folder",
    "solve_darcy",
    "solve_navier_stokes",
    "split_classes",
    "split_hash",
    "stratified_split",
    "subset",
    "survey_folder",
    "survey_masks",
    "targets_at",
    "verify_cache",
    "write_idx",
]
