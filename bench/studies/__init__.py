"""Studies of the claims that courses make about memory: each has a question, rows and a picture.

`python bench/studies NAME...` runs some; rows go to bench/results/study_NAME.csv, pictures to
docs/pictures/study-NAME.svg. docs/explanation/studies.md has the answers.
"""
