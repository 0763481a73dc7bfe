"""All defects that can be put back: the historical ones, and our own."""

from __future__ import annotations

from conformance.defects.historical import DEFECTS
from conformance.defects.model import Defect
from conformance.defects.own import OWN_DEFECTS

ALL_DEFECTS: tuple[Defect, ...] = (*DEFECTS, *OWN_DEFECTS)
"""`conformance defects` without a name."""
OWN_NAMES: frozenset[str] = frozenset(defect.name for defect in OWN_DEFECTS)
"""Defects that no historical client is known to have had."""
