package api

import (
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Write is one request that was to change something.
type Write struct {
	At time.Time
	// Actor asked for it, such as "attune/workload" or "kubelet".
	Actor string
	// Verb, with its subresource, such as "patch/resize"; Kind and Key of the object.
	Verb, Kind, Key string
	// UID of the object, where it is known.
	UID string
	// Body is what a patch says; empty where it is of no interest.
	Body string
	// Answer is the error; nil: it was done. Lost: the answer never arrived.
	Answer error
	Lost   bool
	// Changed: the object was written.
	Changed bool
}

func (w Write) String() string {
	answer := "ok"
	switch {
	case w.Lost && w.Changed:
		answer = "done, answer lost"
	case w.Lost:
		answer = "lost"
	case w.Answer != nil:
		answer = fmt.Sprintf("%d %s", code(w.Answer), w.Answer)
	case !w.Changed:
		answer = "ok, nothing new"
	}
	return fmt.Sprintf("%s %s %s %s %s %s → %s", w.At.Format("01-02T15:04:05.000"), w.Actor, w.Verb, w.Kind, w.Key, w.Body, answer)
}

func code(err error) int32 {
	if status, ok := err.(apierrors.APIStatus); ok {
		return status.Status().Code
	}
	return 0
}

// kept is how many writes of each object are remembered, mostObjects of how many objects: a pod that is refused is
// tried again under another name each time.
const kept, mostObjects = 40, 4000

// Journal keeps the last writes of each object, and tells who listens of every one.
type Journal struct {
	last map[string][]Write
	// order of the objects as they were first written.
	order []string
	// Heard is called for each write; nil: nothing is.
	Heard func(Write)
	// Reads are the live reads that were asked for, by actor.
	Reads map[string]int
}

func newJournal() *Journal { return &Journal{last: map[string][]Write{}, Reads: map[string]int{}} }

func (j *Journal) note(w Write) {
	of := w.Kind + " " + w.Key
	j.remember(of)
	list := append(j.last[of], w)
	if len(list) > 2*kept {
		list = append([]Write(nil), list[len(list)-kept:]...)
	}
	j.last[of] = list
	if j.Heard != nil {
		j.Heard(w)
	}
}

// remember an object; of too many, the half that came first is forgotten.
func (j *Journal) remember(of string) {
	if j.last[of] != nil {
		return
	}
	if j.order = append(j.order, of); len(j.order) <= mostObjects {
		return
	}
	for _, old := range j.order[:mostObjects/2] {
		delete(j.last, old)
	}
	j.order = append([]string(nil), j.order[mostObjects/2:]...)
}

// Of an object: its last writes, one a line.
func (j *Journal) Of(kind, key string) string {
	list := j.last[kind+" "+key]
	if len(list) > kept {
		list = list[len(list)-kept:]
	}
	lines := make([]string, len(list))
	for i, w := range list {
		lines[i] = w.String()
	}
	return strings.Join(lines, "\n")
}
