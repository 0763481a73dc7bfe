"""The historical defects that can be put back, in the order of docs/defects.md's areas."""

from __future__ import annotations

from conformance.defects.judging import JUDGE_DEFECTS
from conformance.defects.model import Defect
from conformance.defects.padding import PADDING_DEFECTS
from conformance.defects.retrying import RETRY_DEFECTS
from conformance.defects.teardown import TEARDOWN_DEFECTS

DEFECTS: tuple[Defect, ...] = (*TEARDOWN_DEFECTS, *PADDING_DEFECTS, *RETRY_DEFECTS, *JUDGE_DEFECTS)
