"""An optimizer's state in slower memory: it is stepped in pieces, whose state comes and goes."""
