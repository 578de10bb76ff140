"""The looks of the pictures that are drawn as SVG."""

from typing import Final

STYLE: Final = """\
  <style>
    svg { --ink: #1d2b45; --soft: #5a6b86; --paper: #ffffff; --good: #1f7a4d; --peer: #9aa5b1 }
    @media (prefers-color-scheme: dark) {
      svg { --ink: #e3e9f4; --soft: #a9b6cc; --paper: #171c26; --good: #55c08b; --peer: #6b7787 }
    }
    .ink { fill: var(--ink) } .soft { fill: var(--soft) } .paper { fill: var(--paper) }
    .good { fill: var(--good) } .peer { fill: var(--peer) }
  </style>
"""
"""The colours: a page in the dark gets the picture's dark form."""
