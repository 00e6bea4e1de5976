"""What pages are made of: elements, tables and charts."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bdqn.report.charts import Scale, Series, _ticks, line_chart, si
from bdqn.report.grid import Cell, Column, grid, write_latex
from bdqn.report.html import Html, data, page, tag

LATEX = shutil.which("pdflatex")


def test_text_is_escaped_and_html_is_not() -> None:
    made = tag("p", "a < b & c", tag("b", "bold"), title='say "x"', class_="lead", hidden=True, id=None)
    assert made == '<p title="say &quot;x&quot;" class="lead" hidden>a &lt; b &amp; c<b>bold</b></p>'


def test_data_cannot_end_their_element() -> None:
    made = data("x", {"name": "</script><script>alert(1)</script>"})
    assert made.count("<") == 2, "those of the element itself"
    assert "\\u003c/script>" in made
    with pytest.raises(ValueError, match="not JSON compliant"):
        data("x", float("nan"))  # JavaScript could not read it


def test_a_page_brings_everything_with_it() -> None:
    made = page("T", tag("p", "x"), scripts=("report.js",))
    assert "<style>" in made
    assert "http://" not in made.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert "https://" not in made
    assert "default-src 'none'" in made.replace("&#x27;", "'")


def test_a_table_is_the_same_in_every_format(tmp_path: Path) -> None:
    made = grid("t", "Title", ["name", "50 %"], [["a_b", "1|2"], ["c", "-"]], "note")
    made.write(tmp_path)
    with (tmp_path / "t.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["name", "50 %"], ["a_b", "1|2"], ["c", "-"]]
    assert "| a_b | 1\\|2 |" in (tmp_path / "t.md").read_text()
    assert "a\\_b & 1\\textbar{}2 \\\\" in (tmp_path / "t.tex").read_text()
    assert "name & 50 \\% \\\\\n    \\midrule" in (tmp_path / "t.tex").read_text()


def test_marks_and_notes_are_in_every_format(tmp_path: Path) -> None:
    """What the page shows by colour or weight is not lost in files, where there is no colour."""
    plain = grid("t", "Title", ["name", "50 %"], [["a", "5%"], ["b", "6"], ["c", "7"]], "A note of 5 %.")
    made = replace(plain, marked=frozenset({0}), faint=frozenset({2}), bold=frozenset({(0, 1)}))
    made.write(tmp_path)
    text = {kind: (tmp_path / f"t.{kind}").read_text().splitlines() for kind in ("csv", "md", "tex")}
    assert text["csv"] == ["name,50 %,mark", "a,5%,marked", "b,6,", "c,7,faint"]
    assert text["md"][:3] == ["**Title** A note of 5 %.", "", "| name | 50 % | mark |"]
    assert text["md"][3:] == ["| --- | --- | --- |", "| a | **5%** | marked |", "| b | 6 |  |", "| c | 7 | faint |"]
    assert text["tex"] == [
        "% Needs \\usepackage{booktabs,graphicx}.",
        "\\begin{table}",
        "  \\centering\\small",
        "  \\caption{Title. A note of 5 \\%. $^{*}$: marked.}",
        "  \\label{tab:t}",
        "  \\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
        "  \\begin{tabular}{lr}",
        "    \\toprule",
        "    name & 50 \\% \\\\",
        "    \\midrule",
        "    a$^{*}$ & \\textbf{5\\%} \\\\",
        "    b & 6 \\\\",
        "    c & 7 \\\\",
        "    \\bottomrule",
        "  \\end{tabular}}",
        "\\end{table}",
    ]
    page = made.html()
    assert page.count('<tr class="marked"><th scope="row">a</th><td class="n"><strong>5%</strong></td></tr>') == 1
    assert "mark</th>" not in page, "it has colours"


def test_a_csv_file_has_numbers_where_a_reader_has_text(tmp_path: Path) -> None:
    heading = ["name", Column.estimate("score", "score", "seeds"), Column("decisions", ["decisions"])]
    rows = [
        ["a", Cell("31.8 (28.7 to 33.7; 3 seeds)", 31.8123, 28.7, 33.7, 3), Cell("20,000", 20_000)],
        ["b", Cell("5 (1 seed)", 5.0, np.nan, np.nan, 1), "missing"],
        ["c", "missing", Cell("1M", 1_000_000)],
    ]
    grid("t", "Title", heading, rows).write(tmp_path)
    assert (tmp_path / "t.csv").read_text().splitlines() == [
        "name,score,score_low,score_high,score_seeds,decisions",
        "a,31.8123,28.7,33.7,3,20000",
        "b,5,,,1,",
        "c,,,,,1000000",
    ]
    assert "| a | 31.8 (28.7 to 33.7; 3 seeds) | 20,000 |" in (tmp_path / "t.md").read_text()
    with pytest.raises(ValueError, match="has 1 numbers, but 'score' has the columns"):
        grid("t", "Title", heading[1:2], [[Cell("5", 5.0)]]).csv_lines()


HOSTILE = r"[x]* 50% of $a_b^c & {d}~e #1 \ <f|g> " + "\x00\n"


def test_a_latex_table_is_for_a_paper(tmp_path: Path) -> None:
    rows = [[HOSTILE, "-3 (-4.5 to -2)", "-", "1e-05"], ["plain", "5 (4 to 6)", "-", "a-b"]]
    made = grid("t", HOSTILE, ["agent", "return", "nothing known", "text"], rows, "What it is.")
    lines = made.latex().splitlines()
    first = next(i for i, line in enumerate(lines) if "midrule" in line) + 1
    hostile, plain = lines[first : first + 2]
    escaped = r"{[}x]{*} 50\% of \$a\_b\textasciicircum{}c \& \{d\}\textasciitilde{}e \#1 \textbackslash{}"
    assert hostile == rf"    {escaped} \textless{{}}f\textbar{{}}g\textgreater{{}} & $-$3 ($-$4.5 to $-$2) & 1e-05 \\"
    assert plain == r"    plain & 5 (4 to 6) & a-b \\"
    assert "nothing known" not in made.latex(), "a column without a figure"
    assert r"\begin{tabular}{lrl}" in made.latex()
    write_latex(tmp_path / "t.tex", [made, made])
    document = r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}\input{t}\end{document}"
    (tmp_path / "paper.tex").write_text(document)
    if LATEX is None:
        pytest.skip("there is no LaTeX here: the text was checked, but not compiled")
    command = [LATEX, "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60)
    log = (tmp_path / "paper.log").read_text(errors="replace")
    assert done.returncode == 0, log[-2_000:]
    assert "Overfull" not in log


def test_columns_of_numbers_stand_to_the_right() -> None:
    made = grid("t", "T", ["game", "score", "why"], [["a", "5.52k", "3 of them"], ["b", "1 (0.5 to 2)", "x"]]).html()
    assert '<td class="n">5.52k</td>' in made
    assert "<td>3 of them</td>" in made


def test_numbers_for_readers() -> None:
    assert [si(v) for v in (0, 0.0215, 999, 25_000, 3.24e6, -2e9)] == ["0", "0.0215", "999", "25k", "3.24M", "-2G"]


def test_scales_map_their_ends_to_the_picture() -> None:
    scale = Scale(1.0, 1000.0, 200.0, 0.0, log=True)
    assert [scale(v) for v in (1.0, 10.0, 1000.0)] == pytest.approx([200.0, 400 / 3, 0.0])
    assert _ticks(Scale(0.0, 95_000.0, 0.0, 1.0)) == [0, 20_000, 40_000, 60_000, 80_000]
    assert _ticks(Scale(-21.0, 21.0, 0.0, 1.0)) == [-20, -10, 0, 10, 20]


def test_a_chart_draws_lines_bands_and_gaps() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0])
    line = Series("a", 0, x, np.array([1.0, np.nan, 2.0, 3.0]), x - 1, x + 1)
    made = line_chart("c", "Title", [line], "return")
    assert made.count("polygon") == 1
    path = made.split(' d="')[1].split('"')[0]
    assert (path.count("M"), path.count("L")) == (2, 1), "a gap begins a new line"
    assert isinstance(made, Html)


def test_the_axis_of_a_share_that_is_zero_throughout_begins_at_zero() -> None:
    x = np.arange(3.0)
    made = line_chart("c", "T", [Series("a", 0, x, np.zeros(3))], "share")
    texts = re.findall("<text[^>]*>([^<]*)</text>", made.split('text-anchor="middle"')[0])
    assert texts[0] == "0"
    assert not any(text.startswith("-") for text in texts)


def test_colours_that_come_again_are_dashed_in_the_chart_and_in_its_legend() -> None:
    x = np.arange(3.0)
    made = line_chart("c", "T", [Series(f"line {i}", i, x, x + i) for i in range(21)], "y")
    lines, keys = (re.findall(f'class="{kind} ([^"]*)"', made) for kind in ("line", "key"))
    assert lines == keys
    assert len(set(lines)) == 21
    assert lines[:8] == ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c0 d1"], "seven are as they were"
    assert Series("more than there are styles", 21, x, x).style == "c0", "drawn all the same"


def test_a_chart_without_runs_says_so() -> None:
    assert "No run has logged this yet." in line_chart("c", "T", [Series("a", 0, np.ones(2), np.full(2, np.nan))], "y")
