module localstack/pause

go 1.25.0
