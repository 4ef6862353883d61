"""A run as one page: report.html, readable from disk without network. Imports neither torch nor ray."""

from rlhf_ray.report.page import report_page, write_report

__all__ = ["report_page", "write_report"]
