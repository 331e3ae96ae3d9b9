package policy

import (
	"time"

	"attune.io/attune/internal/backoff"
)

const (
	// calm is how long settings must stay unchanged, after a wait, so that the next change is applied at once.
	calm = 10 * time.Second
	// firstPace is the first wait between changes of the settings, mostPace the longest; it doubles in between.
	firstPace, mostPace = 2 * time.Second, time.Minute
	// flapping is how many changes in quick succession are reported.
	flapping = 4
)

// pace separates changes of a policy's settings: each change writes every recommendation of the policy, so two field
// managers that overwrite each other must not cause writes without an end. The zero value applies a change at once.
type pace struct {
	// applied is when the last change was applied; quick counts the changes that followed another one within calm.
	applied time.Time
	quick   int
}

// left returns how long a change of the settings waits; 0: apply it now.
func (p pace) left(now time.Time) time.Duration {
	return max(0, p.applied.Add(p.wait()).Sub(now))
}

// wait is the least time between two changes.
func (p pace) wait() time.Duration { return backoff.Wait(firstPace, mostPace, p.quick) }

// afterChange returns the pace after a change that was applied.
func (p pace) afterChange(now time.Time) pace {
	if now.Sub(p.applied) > p.wait()+calm {
		return pace{applied: now}
	}
	return pace{applied: now, quick: p.quick + 1}
}
