"""From episodes tables to a page.

statistics/   what is compared, as numbers: no drawing, no page
drawing/      numbers as figures
here          what composes a page: tables, findings, sections, the page itself
style, words  how methods are called and look, how numbers are written: the same in all three
"""
