"""Pages as Markdown, HTML and CSV."""

from __future__ import annotations

from semiope.paper.pages import Claim, Heading, Made, Points, Spread, Table, html, index, markdown, to_csv

MADE = Made(
    "Table 0: a < b & c",
    [{"estimator": "c*-pdis (G=Qb->Qe)", "rmse": Spread(0.1, 0.2), "pi_b": [0.5, 0.5], "exact": {"bias": 1.0}}],
    ["A line with `code <x>`.", Heading("More"), Table(("what", "how much"), [("`a`", "1")]), Points(["one", "two"])],
    [Claim("it holds", True), Claim("it does not", False)],
)


def test_markdown() -> None:
    text = markdown("table0", MADE, {"seed": 1, "quick": "no"})
    assert text.startswith("# Table 0: a < b & c\n\n- Holds: it holds\n- DOES NOT HOLD: it does not\n\n")
    assert "| what | how much |\n| :-- | --: |\n| `a` | 1 |" in text
    assert "![" not in text
    assert text.endswith("- one\n- two\n\nMade with seed 1, quick no.\n")


def test_html_escapes_and_holds_its_figure() -> None:
    text = html("table0", MADE, b"<svg/>")
    assert "<h2>Table 0: a &lt; b &amp; c</h2>" in text
    assert "<code>code &lt;x&gt;</code>" in text
    assert 'src="data:image/svg+xml;base64,PHN2Zy8+"' in text
    assert '<td class="number">1</td>' in text


def test_index_needs_no_other_file_and_tells_what_does_not_hold() -> None:
    text = index({"seed": 1}, {"table0": MADE}, {})
    assert "1 of 2 checks DO NOT HOLD" in text
    assert "<td>seed</td><td>1</td>" in text
    assert "http" not in text
    assert "<script" not in text


def test_csv_has_plain_columns() -> None:
    assert to_csv(MADE.rows) == ("estimator,rmse,rmse_std,pi_b,exact_bias\nc*-pdis (G=Qb->Qe),0.1,0.2,0.5 0.5,1.0\n")
