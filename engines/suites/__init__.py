"""What a suite's report needs that no run tells."""
