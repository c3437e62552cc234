"""The board: a web page on which one organisation sees what was learnt about its people, and decides."""
