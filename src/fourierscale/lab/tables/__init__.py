"""The paper's tables as experiments: as data, run by an engine, shown beside the paper's figures.

>>> from fourierscale.lab.tables import TABLES
>>> TABLES["mnist-all"].rows[0].preset
'mnist-baseline'

``fourierscale reproduce run mnist-all`` runs one, ``fourierscale reproduce report`` writes a page of all.
"""

from fourierscale.lab.tables.paper import PAPER, PaperTable, paper_rows
from fourierscale.lab.tables.rows import Column, Table, TableRow
from fourierscale.lab.tables.tables import TABLES, find_rows, find_table

__all__ = ["PAPER", "TABLES", "Column", "PaperTable", "Table", "TableRow", "find_rows", "find_table", "paper_rows"]
