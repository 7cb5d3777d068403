"""Lists of samples: which recordings, videos and questions make up a dataset, in whatever form a lab wrote them."""
