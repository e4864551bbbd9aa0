"""Writes everything derived from a run into its ``analysis`` folder."""

from __future__ import annotations

import io

from specgauge.analyze.document import Summary
from specgauge.analyze.records import RunRecord
from specgauge.record import atomic
from specgauge.record.layout import RunPaths
from specgauge.report import html, markdown, tables
from specgauge.report.figures import FIGURES


def write_report(run: RunRecord, summary: Summary, folder: RunPaths) -> None:
    """Write summary.json, tables, figures, report.md and report.html.

    ``run`` is the record the summary was made from.  Files of an earlier report that this one
    does not have (a figure without data) are removed.

    Raises:
        EnvironmentFault: the folder cannot be written.
    """
    del run  # every figure shown is in the summary; kept in the signature for traces to come
    atomic.write_json(folder.summary, summary.model_dump(mode="json", by_alias=True))
    for table in tables.every(summary):
        at = folder.analysis / "tables" / table.name
        atomic.write_text(at.with_name(f"{table.name}.md"), table.markdown() + "\n")
        atomic.write_text(at.with_name(f"{table.name}.csv"), table.csv())
    captions, images = _figures(summary, folder)
    text = markdown.render(summary, captions)
    atomic.write_text(folder.analysis / "report.md", text)
    title = f"{summary.experiment} {summary.run_id}"
    atomic.write_text(folder.analysis / "report.html", html.render(text, images, title))


def _figures(summary: Summary, folder: RunPaths) -> tuple[dict[str, str], dict[str, bytes]]:
    """Captions by name and PNGs by path, of those that the run has data for."""
    captions: dict[str, str] = {}
    images: dict[str, bytes] = {}
    for name, (caption, draw) in FIGURES.items():
        at = folder.analysis / "figures" / f"{name}.png"
        figure = draw(summary)
        if figure is None:
            at.unlink(missing_ok=True)
            continue
        out = io.BytesIO()
        figure.savefig(out, format="png")
        atomic.write_bytes(at, out.getvalue())
        captions[name] = caption
        images[f"figures/{name}.png"] = out.getvalue()
    return captions, images
