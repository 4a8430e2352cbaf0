"""page: `tierfold report`, one HTML file on the nights so far, for people who look.

    page_model     what the page shows, as frozen values
    recorded       what the table `runs` says, summed by Arrow
    surveyed       what a survey of the tier says: topics, owners, what stays, segment maps
    urgent         what needs a person, the most urgent first
    page_of        all of it as one model
    figures        the pictures, by altair
    page_file      the HTML file and single SVG pictures

Only `figures` and `page_file` need the packages of the extra `report`.
"""
