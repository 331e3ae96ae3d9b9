package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/connect"
	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/usage/csvfile"
)

// checkHPA returns an error about flags that cannot be combined with --hpa.
func (f *backtestFlags) checkHPA() error {
	switch {
	case f.hpa.Live && f.from == "":
		return errors.New("--hpa live needs the usage of the cluster: add --from embedded or --from prometheus, or describe the HPA, e.g. --hpa min=2,max=10,target=70,request=1,instead=462m")
	case !f.hpa.Live && f.from != "":
		return errors.New("with --from, backtest reads the HPAs of the cluster: use --hpa live")
	case f.policy != "" || f.peers || len(f.sweep) > 0 || f.budgets.any() || f.html || f.pool.Given():
		return errors.New("--hpa cannot be combined with --policy, --peers, --sweep, --pool, budgets (--max-…) or -o html")
	}
	return nil
}

// hpaAnswer is the answer of backtest --hpa.
type hpaAnswer struct {
	// HPAs are sorted by workload; never nil.
	HPAs []hpaResult `json:"hpas"`
}

// hpaResult is what one HPA would have done with another request.
type hpaResult struct {
	// Workload is NAMESPACE/KIND/NAME, or the file of --trace.
	Workload string `json:"workload"`
	// HPA is its name, empty if a flag describes it. Container is empty for whole pods.
	HPA       string `json:"hpa,omitempty"`
	Container string `json:"container,omitempty"`
	Resource  string `json:"resource"`
	// MinReplicas, MaxReplicas, Target (percent) and the tolerances are those of the HPA. InsteadTarget is the target with
	// the recommended request, if attune rewrites it.
	MinReplicas   int32   `json:"minReplicas"`
	MaxReplicas   int32   `json:"maxReplicas"`
	Target        int32   `json:"target"`
	InsteadTarget int32   `json:"insteadTarget,omitempty"`
	ToleranceUp   float64 `json:"toleranceUp"`
	ToleranceDown float64 `json:"toleranceDown"`
	// Request is the present request of a pod (or of the container), Instead the recommended one.
	Request string `json:"request"`
	Instead string `json:"instead"`
	// Extremes: the steps are only the moments of the least and the greatest usage of each number of pods.
	Extremes bool `json:"extremes,omitempty"`
	// Steps counts the steps with known usage. At Differ of them the HPA would have asked for another number of replicas,
	// at More of these for a higher one.
	Steps  int `json:"steps"`
	Differ int `json:"differ"`
	More   int `json:"more"`
	// First are the first of these steps; never nil.
	First []hpaChange `json:"first"`
	// Freed is the mean request of all replicas that becomes free; negative means an increase. Empty without steps.
	Freed string `json:"freed,omitempty"`
	// Why is the reason why nothing was computed; empty: it was.
	Why string `json:"why,omitempty"`
}

// hpaChange is a step at which the number of replicas differs.
type hpaChange struct {
	At      time.Time `json:"at"`
	Asked   int32     `json:"asked"`
	Instead int32     `json:"instead"`
}

// mostHPAChanges limits the examples of one HPA.
const mostHPAChanges = 3

// judge compares the two settings over the moments.
func (h *hpaResult) judge(r recommender.Resource, moments []replicas.Moment, with, other replicas.Setting) {
	amount := func(x float64) string { return recommender.Format(r, recommender.Amount(math.Round(x))) }
	h.Resource, h.MinReplicas, h.MaxReplicas, h.Target = r.String(), with.Min, with.Max, with.Target
	h.ToleranceUp, h.ToleranceDown, h.First = with.Up, with.Down, []hpaChange{}
	h.Request, h.Instead = amount(with.Request), amount(other.Request)
	if other.Target != with.Target {
		h.InsteadTarget = other.Target
	}
	if h.Why != "" {
		return
	}
	found := replicas.Compare(moments, with, other, mostHPAChanges)
	h.Steps, h.Differ, h.More = found.Moments, found.Differ, found.More
	for _, c := range found.First {
		h.First = append(h.First, hpaChange{c.At, c.Asked, c.Instead})
	}
	if h.Steps > 0 {
		h.Freed = answers.FormatSaved(r, recommender.Amount(math.Round(found.Asked-found.Instead)))
	}
}

// Human writes one row for each HPA, and below it the first steps at which the number differs.
func (a hpaAnswer) Human(wide bool) (string, error) {
	t := answers.Table{
		Header:   []string{"WORKLOAD", "HPA", "CONTAINER", "RESOURCE", "REQUEST", "INSTEAD", "STEPS", "DIFFER", "MORE", "FREED", "MIN", "MAX", "TARGET", "NOTE"},
		OnlyWide: []string{"CONTAINER", "MORE", "MIN", "MAX", "TARGET"},
	}
	extremes := false
	for _, h := range a.HPAs {
		target := strconv.Itoa(int(h.Target)) + "%"
		if h.InsteadTarget != 0 {
			target += " -> " + strconv.Itoa(int(h.InsteadTarget)) + "%"
		}
		t.Add(h.Workload, h.HPA, h.Container, h.Resource, h.Request, h.Instead, strconv.Itoa(h.Steps), strconv.Itoa(h.Differ), strconv.Itoa(h.More), h.Freed,
			strconv.Itoa(int(h.MinReplicas)), strconv.Itoa(int(h.MaxReplicas)), target, h.note())
		extremes = extremes || h.Extremes
	}
	text := output.Text(t, wide) + "\n" + hpaRule
	if extremes {
		text += hpaExtremes
	}
	return text, nil
}

// note says why nothing was computed, or the first steps at which the number differs.
func (h *hpaResult) note() string {
	if h.Why != "" {
		return h.Why
	}
	return strings.Join(podview.Map(h.First, func(c hpaChange) string {
		return fmt.Sprintf("%d replicas instead of %d at %s", c.Instead, c.Asked, c.At.UTC().Format("2006-01-02 15:04 UTC"))
	}), ", ")
}

// hpaRule says how the steps are computed.
const hpaRule = "STEPS have known usage. At DIFFER of them, the HPA would have asked for another number of replicas with INSTEAD than with REQUEST,\n" +
	"by the formula of the HPA controller with its target, tolerance, minReplicas and maxReplicas, for the pods that ran. Behavior and\n" +
	"stabilization are left out, and a number that differs changes no later step. FREED is the mean of replicas x request. A step is a\n" +
	"mean over minutes; an HPA sees those of 15 to 30 seconds.\n"

const hpaExtremes = "From --from embedded, STEPS are only the moments of the lowest and the highest mean usage of each number of pods.\n"

// runHPA prints what the HPAs would have done.
func (f *backtestFlags) runHPA(ctx context.Context, env *environment, policies []string) error {
	var answer hpaAnswer
	var err error
	if f.from == "" {
		answer, err = f.hpaOfTrace(env)
	} else {
		answer, err = f.hpaOfCluster(ctx, env, policies)
	}
	if err != nil {
		return err
	}
	return env.print(answer)
}

// hpaOfTrace compares the requests of the flag on a file whose series are the pods of a workload.
func (f *backtestFlags) hpaOfTrace(env *environment) (hpaAnswer, error) {
	h := f.hpa
	type minute struct {
		pods int32
		sum  float64
	}
	minutes := map[int64]minute{}
	report, err := csvfile.Each(f.trace, func(float64) {}, func(pod backtest.Series) error {
		env.printDropped(pod.ID, csvfile.DropAbove(pod, f.node.Bounds()))
		for i, s := range pod.Samples {
			at, used := s.At/60_000, s.Used[h.Resource]
			if i+1 < len(pod.Samples) && pod.Samples[i+1].At/60_000 == at || math.IsNaN(used) {
				continue // one sample per minute counts
			}
			m := minutes[at]
			minutes[at] = minute{m.pods + 1, m.sum + used}
		}
		return nil
	})
	if err == nil && report.Rows == 0 {
		err = noSamples(f.trace)
	}
	if err != nil {
		return hpaAnswer{}, err
	}
	env.printOddities(f.trace, report)
	unit := [2]float64{recommender.CPU: 1000, recommender.Memory: 1}[h.Resource]
	var moments []replicas.Moment
	for _, at := range slices.Sorted(maps.Keys(minutes)) {
		m := minutes[at]
		fleet := replicas.Fleet{Current: m.pods, Ready: m.pods, Usage: m.sum / float64(m.pods) * unit}
		moments = append(moments, replicas.Moment{At: time.Unix(60*at, 0).UTC(), Fleet: fleet})
	}
	result := hpaResult{Workload: f.trace}
	result.judge(h.Resource, moments, replicas.Setting{Scaler: h.Scaler, Request: float64(h.Request)}, replicas.Setting{Scaler: h.Scaler, Request: float64(h.Instead)})
	return hpaAnswer{HPAs: []hpaResult{result}}, nil
}

// hpaOfCluster compares the present requests of workloads with the recommended ones, for each HPA that scales on them.
func (f *backtestFlags) hpaOfCluster(ctx context.Context, env *environment, policies []string) (hpaAnswer, error) {
	answer := hpaAnswer{HPAs: []hpaResult{}}
	l, err := newLiveUsage(ctx, env, *f, policies)
	if err != nil {
		return answer, err
	}
	var list autoscalingv2.HorizontalPodAutoscalerList
	if err := l.List(ctx, &list, client.InNamespace(l.namespace)); err != nil {
		return answer, fmt.Errorf("listing the HorizontalPodAutoscalers: %w", err)
	}
	pods, _, err := l.pods(ctx, podview.Running, "present requests are those of the templates")
	if err != nil {
		return answer, err
	}
	for i := range l.recs {
		id := workload.IdentityOf(&l.recs[i])
		of := autoscale.Autoscalers{Tolerance: f.hpa.Scaler.Up, HPAs: slices.DeleteFunc(slices.Clone(list.Items), func(h autoscalingv2.HorizontalPodAutoscaler) bool {
			return h.Namespace != id.Namespace
		})}
		w, known := l.sizes[id]
		if !known || w.Template == nil {
			continue
		}
		running := pods[id]
		if len(running) == 0 {
			running = []*corev1.Pod{{Spec: w.Template.Spec}}
		}
		for _, scale := range of.Of(w).Scales() {
			result, err := l.hpaResult(ctx, &l.recs[i], running, scale)
			if err != nil {
				return answer, err
			}
			answer.HPAs = append(answer.HPAs, result)
		}
	}
	if len(answer.HPAs) == 0 {
		return answer, errors.New("no HorizontalPodAutoscaler scales one of these workloads on the utilization of a request")
	}
	return answer, nil
}

// hpaResult compares the present request of a workload with the recommended one.
func (l *liveUsage) hpaResult(ctx context.Context, rec *v1alpha1.AttuneRecommendation, pods []*corev1.Pod, of autoscale.Scale) (hpaResult, error) {
	id := workload.IdentityOf(rec)
	result := hpaResult{Workload: id.Namespace + "/" + id.String(), HPA: of.HPA, Container: of.Binding.Container, Extremes: l.from == fromEmbedded, Why: of.Why}
	present, why := autoscale.MeanRequests(pods, result.Container, of.Resource)
	result.Why = cmp.Or(result.Why, why)
	with, other := replicas.Setting{Scaler: of.Scaler}, replicas.Setting{Scaler: of.Scaler}
	retargets := false
	for _, name := range slices.Sorted(maps.Keys(present)) {
		instead := present[name]
		for i := range rec.Spec.Containers {
			t := &rec.Spec.Containers[i]
			if target := podview.FromResources(t.Target)[of.Resource].Request; t.Name == name && target > 0 {
				instead = float64(target)
				proof, _ := autoscale.Granted(t, of.Resource)
				retargets = retargets || proof == string(v1alpha1.HPARetarget)
			}
		}
		with.Request, other.Request = with.Request+present[name], other.Request+instead
	}
	if retargets && with.Request > 0 && other.Request > 0 && with.Target > 0 {
		other.Target = replicas.Threshold{Target: with.Target, Request: with.Request}.At(other.Request)
	}
	var moments []replicas.Moment
	if result.Why == "" {
		var err error
		if moments, err = l.moments(ctx, rec, of.Binding); err != nil {
			return result, err
		}
		if len(moments) == 0 {
			result.Why = "the usage of its pods is not known"
			if l.from == fromEmbedded {
				result.Why += ": the operator stores it if cpu.hpa or memory.hpa of the policy is not Block; --from prometheus reads it"
			}
		}
	}
	result.judge(of.Resource, moments, with, other)
	return result, nil
}

// moments are the known moments of the pods of a workload.
func (l *liveUsage) moments(ctx context.Context, rec *v1alpha1.AttuneRecommendation, of autoscale.Binding) ([]replicas.Moment, error) {
	id := workload.IdentityOf(rec)
	if l.from == fromEmbedded {
		moments, err := connect.StoredMoments(rec, of.Container, of.Resource, l.span)
		if err != nil {
			l.env.printNote("%s in namespace %s: %v", id, id.Namespace, err)
		}
		return moments, nil
	}
	question, err := l.question(ctx, id, l.of[policyOf(rec)])
	if err != nil {
		return nil, err
	}
	moments, report, err := connect.Moments(ctx, question, of.Container, of.Resource, mostOn(rec))
	return moments, l.answered(id, report, err)
}
