package integration

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/event"
)

// said keeps the events that a loop sends.
type said struct {
	mutex sync.Mutex
	all   []string
}

// Eventf implements event.Sink.
func (s *said) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.all = append(s.all, reason+" "+regarding.(client.Object).GetName()+": "+fmt.Sprintf(note, args...))
}

func (s *said) notes() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.all
}

func (s *said) recorder() *event.Recorder { return event.NewRecorder(s, clock.RealClock{}) }
