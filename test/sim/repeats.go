package sim

import (
	"encoding/json"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"attune.io/attune/test/sim/api"
)

// repeats: the same resize is not sent to the same pod again within the back-off of its answer.
type repeats struct {
	deaf
	*scene
	last map[string]sent
}

type sent struct {
	at     time.Time
	answer error
	lost   bool
	// in a row, with less than a day between.
	times int
	// version of the pod that the patch was made for, and how often in a row it had moved on.
	version   string
	conflicts int
}

// mostCatchUps is how often a patch may be sent again at once for the version that the pod has by now.
const mostCatchUps = 3

func newRepeats(s *scene) *repeats { return &repeats{scene: s, last: map[string]sent{}} }

func (r *repeats) wrote(w api.Write) {
	if w.Verb != "patch/resize" || !strings.HasPrefix(w.Actor, "attune") {
		return
	}
	patch, version := withoutVersion(w.Body)
	key := w.UID + " " + patch
	before, known := r.last[key]
	now := sent{at: w.At, answer: w.Answer, lost: w.Lost, times: 1, version: version}
	if known && w.At.Sub(before.at) < 24*time.Hour {
		now.times += before.times
	}
	if apierrors.IsConflict(w.Answer) {
		now.conflicts = 1
		if w.At.Sub(before.at) < before.wait() {
			now.conflicts += before.conflicts
		}
	}
	r.last[key] = now
	if wait := before.wait(); known && w.At.Sub(before.at) < wait && !before.catchesUp(version) {
		namespace, name, _ := strings.Cut(w.Key, "/")
		of := r.workloadOf("Pod", key2(namespace, name))
		r.violate("no repeats", of.String(), "the same resize of %s is sent again after %s, not %s: %s (%v)", w.Key, w.At.Sub(before.at), wait, w.Body, before.answer)
	}
}

// wait before the same resize may be sent again. Operators that were started anew keep to it as well.
func (s sent) wait() time.Duration {
	switch {
	case s.lost || s.answer == nil:
		return 4 * time.Second
	case apierrors.IsForbidden(s.answer) && strings.Contains(s.answer.Error(), "exceeded quota"):
		return 4 * time.Second // a quota's use changes with each pod of the namespace, and then the answer may be another one
	case apierrors.IsForbidden(s.answer) && strings.Contains(s.answer.Error(), "status unknown for quota"):
		return 4 * time.Second // the quota is new: its controller has not counted yet, and will have within seconds
	case apierrors.IsInvalid(s.answer), apierrors.IsForbidden(s.answer):
		return 9 * time.Minute
	case apierrors.IsNotFound(s.answer):
		// A pod that is gone is the usual reason, so it is tried again sooner, and then each time twice as late.
		return min(9*time.Minute, 55*time.Second<<(s.times-1))
	}
	return 4 * time.Second
}

// catchesUp: the patch met another version of the pod, and is sent again for that one.
func (s sent) catchesUp(version string) bool {
	return apierrors.IsConflict(s.answer) && s.conflicts <= mostCatchUps && version != s.version
}

// withoutVersion is a patch without the version that it was made for, and the version.
func withoutVersion(body string) (string, string) {
	var patch map[string]any
	if json.Unmarshal([]byte(body), &patch) != nil {
		return body, ""
	}
	version := ""
	if meta, ok := patch["metadata"].(map[string]any); ok {
		version, _ = meta["resourceVersion"].(string)
		delete(meta, "resourceVersion")
	}
	out, err := json.Marshal(patch)
	if err != nil {
		return body, version
	}
	return string(out), version
}

func (r *repeats) tick() {
	for key, s := range r.last {
		if r.now().Sub(s.at) > 48*time.Hour {
			delete(r.last, key)
		}
	}
}
