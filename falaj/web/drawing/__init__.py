"""Pictures that the server draws as SVG: pure functions from values to markup. Colours come from the style sheet, by class."""
