module sandur.invalid/cacheclients

go 1.21

require (
	github.com/grafana/gomemcache v0.0.0-20251127154401-74f93547077b
	github.com/memcachier/mc/v3 v3.0.3
)
