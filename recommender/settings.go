package recommender

import "time"

// Settings are the settings of a recommendation. Every field is set, and validated once where the settings are
// made (internal/policy); this package does not check them again.
type Settings struct {
	// HistoryWindow is the span of history that full confidence needs, at most 7 days of it.
	HistoryWindow time.Duration
	// QueryStep is the length of one step of history.
	QueryStep time.Duration
	// MinimumDataPoints is the number of steps with data below which nothing is recommended.
	MinimumDataPoints int
	// Of holds each resource's own settings, indexed by Resource.
	Of [2]ResourceSettings
}

// ResourceSettings are the settings of one resource.
type ResourceSettings struct {
	// Percentile of usage: 50, 90, 95 or 99.
	Percentile int
	// OverheadPercent is the headroom above it, in percent.
	OverheadPercent float64
	// BurstSensitivity weighs bursts; 0 switches the burst step off.
	BurstSensitivity float64
	// MinAllowed and MaxAllowed bound the request; zero is no bound.
	MinAllowed, MaxAllowed Amount
	// MaxChangePercent caps one step, in percent of the live allocation.
	MaxChangePercent int
	// LimitsFollow: limits keep the original limit-to-request ratio; else they are left alone.
	LimitsFollow bool
	// AllowDecrease lets the request be lowered.
	AllowDecrease bool
}
