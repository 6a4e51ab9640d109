"""What an orchestrator asks for: values in, values out.

They do what the commands do, with the commands' own checks, and know nothing of Airflow. Each may
be asked for again at any moment: what is half done is taken up, what is done is left alone.
"""
