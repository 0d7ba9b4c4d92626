"""Jobs on the open model, one function each; :meth:`Workbench.run` is the window's way to them."""

from nnjit_studio.workbench.jobs.advice import advise, apply_row
from nnjit_studio.workbench.jobs.advice_in_use import measure_in_use
from nnjit_studio.workbench.jobs.candidates import explain, inspect, run_kernel, try_candidate
from nnjit_studio.workbench.jobs.compare import compare_backends, use_backend
from nnjit_studio.workbench.jobs.device import measure_device
from nnjit_studio.workbench.jobs.diff import diff, output_errors, tensor
from nnjit_studio.workbench.jobs.export import (
    Tuning,
    export,
    export_any_size,
    report,
    write_programs,
)
from nnjit_studio.workbench.jobs.feed import feed
from nnjit_studio.workbench.jobs.page_form import take_form
from nnjit_studio.workbench.jobs.profile import profile
from nnjit_studio.workbench.jobs.records import records
from nnjit_studio.workbench.jobs.refused import (
    faster_module,
    make_refused_faster,
    run_refused,
)
from nnjit_studio.workbench.jobs.size_tuning import tune_sizes
from nnjit_studio.workbench.jobs.sizes import profile_sizes, profile_sizes_beside
from nnjit_studio.workbench.jobs.verdict import verdict

__all__ = [
    "Tuning",
    "advise",
    "apply_row",
    "compare_backends",
    "diff",
    "explain",
    "export",
    "export_any_size",
    "faster_module",
    "feed",
    "inspect",
    "make_refused_faster",
    "measure_device",
    "measure_in_use",
    "output_errors",
    "profile",
    "profile_sizes",
    "profile_sizes_beside",
    "records",
    "report",
    "run_kernel",
    "run_refused",
    "take_form",
    "tensor",
    "try_candidate",
    "tune_sizes",
    "use_backend",
    "verdict",
    "write_programs",
]
