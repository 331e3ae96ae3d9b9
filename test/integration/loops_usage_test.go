package integration

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-logr/logr"
	prom "github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/store"
	"attune.io/attune/webhook/pod"
)

// usages is a history in which every container has used the same for a week, up to now.
type usages struct {
	// of a container by its name; Peak, where set, is used in one step of the week.
	of map[string]used
	// profiles are made once for each amount.
	profiles map[used]recommender.Profile
}

// used is CPU in cores and memory in MiB; Days of history, 7 if zero.
type used struct {
	CPU    float64
	Memory float64
	Days   int
}

func newUsages() *usages {
	return &usages{of: map[string]used{}, profiles: map[used]recommender.Profile{}}
}

func (u *usages) Want(store.Interest)   {}
func (u *usages) Forget(string, string) {}
func (u *usages) State(usage.SourceSettings) (store.State, bool) {
	return store.State{BackfillProgress: 1}, true
}

// Profile ends at the last whole step before now.
func (u *usages) Profile(key store.Key, now time.Time) (recommender.Profile, bool) {
	of, ok := u.of[key.Workload+"/"+key.Container]
	if !ok {
		of, ok = u.of[key.Container]
	}
	if !ok {
		return recommender.Profile{}, false
	}
	profile, made := u.profiles[of]
	if !made {
		profile = week(of, now)
		u.profiles[of] = profile
	}
	return shifted(profile, now.Truncate(5*time.Minute).Sub(profile.Last)), true
}

func week(of used, now time.Time) recommender.Profile {
	const step = 5 * time.Minute
	days := of.Days
	if days == 0 {
		days = 7
	}
	var steps []recommender.StepUsage
	for at := now.Truncate(step).Add(step - time.Duration(days)*24*time.Hour); !at.After(now); at = at.Add(step) {
		steps = append(steps, recommender.StepUsage{At: at, CPUCores: of.CPU, MemoryBytes: of.Memory * (1 << 20)})
	}
	return recommender.NewProfile(steps, step)
}

// shifted is the same history some time later.
func shifted(p recommender.Profile, by time.Duration) recommender.Profile {
	p.First, p.Last = p.First.Add(by), p.Last.Add(by)
	for r := range p.Of {
		p.Of[r].First, p.Of[r].Last = p.Of[r].First.Add(by), p.Of[r].Last.Add(by)
	}
	return p
}

// seedPatch asks the real webhook what it would do to a new pod, as a JSON patch.
func seedPatch(w *world, p *corev1.Pod) ([]byte, error) {
	index := pod.NewIndex()
	for _, rec := range w.recommendations() {
		index.Set(&rec)
	}
	handler := &pod.Handler{Known: index, Metrics: pod.NewMetrics(prom.NewRegistry()), Clock: w.clock, Log: logr.Discard()}
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID("review"), Operation: admissionv1.Create, Namespace: w.namespace,
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Object:   runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		return nil, err
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, pod.Path, bytes.NewReader(body)))
	answer, err := io.ReadAll(recorder.Body)
	if err != nil {
		return nil, err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &review); err != nil {
		return nil, err
	}
	return review.Response.Patch, nil
}
