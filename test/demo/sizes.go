package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sizes are the memory limits that a workload's pods were given one after another. They are watched, not
// asked for now and then: none is missed.
type sizes struct {
	mu     sync.Mutex
	given  []given
	marked int  // those before this one do not count
	ended  bool // the watch is over: some may be missed
}

// given is a limit in bytes and when it was seen first.
type given struct {
	limit int64
	at    time.Time
}

// record begins to note a workload's memory limits.
func (d *demo) record(ctx context.Context, workload string) (*sizes, error) {
	watch, err := d.client.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace), client.MatchingLabels{"app": workload})
	if err != nil {
		return nil, err
	}
	s := &sizes{}
	go func() {
		for event := range watch.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				s.add(sizeOf(pod.Spec.Containers[0].Resources).memoryLimit, time.Now())
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = true
	}()
	return s, nil
}

func (s *sizes) add(limit int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.given); n == 0 || s.given[n-1].limit != limit {
		s.given = append(s.given, given{limit, at})
	}
}

// mark has above look only at the newest limit and those that follow. It wants that to be the one given:
// what is watched may come later than what is asked for.
func (s *sizes) mark(newest int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.given) - 1
	if last < 0 || s.given[last].limit != newest {
		return fmt.Errorf("the watch has not shown the limit %s yet", mib(newest))
	}
	s.marked = last
	return nil
}

// above says which limit since the mark was not above another, if one was not.
func (s *sizes) above(limit int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return fmt.Errorf("the watch on its pods broke off: it may have had any size")
	}
	for _, g := range s.given[s.marked:] {
		if g.limit <= limit {
			return fmt.Errorf("its limit was %s again, and %s had killed it", mib(g.limit), mib(limit))
		}
	}
	return nil
}

// since is how long after a time the newest limit came.
func (s *sizes) since(t time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.given) == 0 {
		return 0
	}
	return s.given[len(s.given)-1].at.Sub(t)
}

// String is the whole sequence.
func (s *sizes) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, g := range s.given {
		all = append(all, mib(g.limit))
	}
	return strings.Join(all, ", ")
}
