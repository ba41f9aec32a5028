"""From episodes tables to a page.

    statistics/      what is compared, as numbers: no drawing, no page
    drawing/         numbers as figures
    harm             what is measured: counts or costs, its limit, its tail, its words and digits
    style, words     how methods are called and look, how numbers are written: the same everywhere
    tables, measuring, versus, elsewhere    numbers as tables
    exports          figures and tables as files for papers and programs
    blocks           which of these figures and tables a dilemma's section shows, one declaration each
    findings, discussion, sections, page    the page: what was found, in whose words, in which order, as a file
"""
