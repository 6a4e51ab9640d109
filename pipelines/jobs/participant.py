"""For spark-submit: a participant's job, as `pipelines.supervising.job` runs it."""

import sys

from pipelines.supervising.job import main

sys.exit(main(sys.argv[1:]))
