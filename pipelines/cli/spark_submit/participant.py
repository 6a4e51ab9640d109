"""For spark-submit: a participant's job, as `pipelines.cli.job_process` runs it."""

import sys

from pipelines.cli.job_process import main

sys.exit(main(sys.argv[1:]))
