"""Who solves the chain of 100 states and the binary trees, and after how many episodes?

Reads the CSV files of results/ only: python experiments/anchors/analysis.py
"""

from __future__ import annotations

from bdqn.report.experiment import Page

LEVEL = 0.9

page = Page(__file__)
page.say("# Problems on which others have said who fails")
for file, title, figure in (("sweep.toml", "The chain", "chain.png"), ("trees.toml", "Binary trees", "trees.png")):
    page.say(f"## {title}")
    found = page.read(file).found
    page.episodes("solved.csv", found.envs, found.groups)
    page.compare(found, "bdqn-explore", LEVEL)
    page.curves(figure, found, LEVEL)
page.write()
