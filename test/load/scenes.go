package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// begin starts the operator, with a policy in each namespace, and waits for everything to be recommended.
func (s *site) begin(ctx context.Context, _ options) (err error) {
	for _, p := range s.parts {
		policy := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "all"}}
		policy.Spec.TargetRef.Kind = v1alpha1.KindDeployment
		kind, window := v1alpha1.UpdateInitial, v1alpha1.Duration{Duration: metav1.Duration{Duration: 7 * 24 * time.Hour}}
		policy.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: &kind}
		policy.Spec.MetricsSource = &v1alpha1.MetricsSource{HistoryWindow: &window}
		if err := s.client.Create(ctx, policy); err != nil {
			return err
		}
	}
	if s.operator, err = s.start(ctx); err != nil {
		return err
	}
	began, want := time.Now(), len(s.parts)*workloadsEach
	err = awaited(ctx, "the last recommendation", func() error {
		if _, _, _, err := s.operator.used(); err != nil {
			return err
		}
		targets, err := s.targets(ctx)
		if err == nil && len(targets) < want {
			err = fmt.Errorf("%d of %d", len(targets), want)
		}
		return err
	})
	if err != nil {
		return err
	}
	cpu, rss, most, err := s.operator.used()
	say("all recommended in", "%s from the start, with a week of history read; %s of CPU, %.0f MiB (at most %.0f, of %d that its container has)",
		time.Since(began).Round(100*time.Millisecond), cpu, rss, most, s.memory()>>20)
	return err
}

// targets of all workloads that have some, by namespace and name.
func (s *site) targets(ctx context.Context) (map[string][]v1alpha1.ContainerTarget, error) {
	list := &v1alpha1.AttuneRecommendationList{}
	if err := s.client.List(ctx, list); err != nil {
		return nil, err
	}
	targets := map[string][]v1alpha1.ContainerTarget{}
	for _, rec := range list.Items {
		if len(rec.Spec.Containers) > 0 && rec.Spec.Containers[0].Target != (v1alpha1.Resources{}) {
			targets[rec.Namespace+"/"+rec.Name] = rec.Spec.Containers
		}
	}
	return targets, nil
}

// rest watches while nothing happens.
func (s *site) rest(ctx context.Context, o options) error {
	wrote, err := s.writes(ctx)
	if err != nil {
		return err
	}
	cpu, _, _, err := s.operator.used()
	if err != nil {
		return err
	}
	if err := sleep(ctx, o.steady); err != nil {
		return err
	}
	later, err := s.writes(ctx)
	if err != nil {
		return err
	}
	after, rss, most, err := s.operator.used()
	minutes, workloads := o.steady.Minutes(), float64(len(s.parts)*workloadsEach)
	say("at rest", "%.2f s of CPU a minute, %.0f MiB (at most %.0f); %.3f writes of attune's objects per workload and minute",
		(after-cpu).Seconds()/minutes, rss, most, (later-wrote)/workloads/minutes)
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// writes of attune's objects that the API server has counted.
func (s *site) writes(ctx context.Context) (float64, error) {
	clients, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return 0, err
	}
	raw, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	families, err := parsed(bytes.NewReader(raw))
	if err != nil {
		return 0, err
	}
	total := 0.0
	for _, metric := range families["apiserver_request_total"].GetMetric() {
		of := map[string]string{}
		for _, label := range metric.Label {
			of[label.GetName()] = label.GetValue()
		}
		if of["group"] == v1alpha1.GroupVersion.Group && slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY"}, of["verb"]) {
			total += metric.Counter.GetValue()
		}
	}
	return total, nil
}

// rollout gives a thousand pods a new template at once, and waits until all run.
func (s *site) rollout(ctx context.Context, _ options) error {
	if err := s.hook(ctx, "attune", s.operator.port, "/mutate-pod", s.operator.authority); err != nil {
		return err
	}
	cpu, _, _, err := s.operator.used()
	if err != nil {
		return err
	}
	began, pods := time.Now(), 0
	for _, p := range s.parts {
		for i := 0; i < workloadsEach && pods < rolled; i++ {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: fmt.Sprintf("app-%03d", i)}}
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"template":{"metadata":{"annotations":{"rolled":"out"}}}}}`))
			if err := s.client.Patch(ctx, d, patch); err != nil {
				return err
			}
			pods += podsEach / workloadsEach
		}
	}
	seeded := 0
	err = awaited(ctx, "the rollout", func() error {
		if err := s.each(ctx, func(ctx context.Context, p *part) error { return p.sync(ctx, time.Now(), true) }); err != nil {
			return err
		}
		seeded, err = s.rolledOut(ctx, pods)
		return err
	})
	if err != nil {
		return err
	}
	after, rss, _, err := s.operator.used()
	say("a rollout", "of %d pods took %s, %d of them were seeded; %s of CPU, %.0f MiB", pods, time.Since(began).Round(100*time.Millisecond), seeded, after-cpu, rss)
	if err != nil {
		return err
	}
	return s.learn(ctx)
}

// rolledOut says how many of the new pods were seeded, once all of them run.
func (s *site) rolledOut(ctx context.Context, want int) (seeded int, err error) {
	pods := &corev1.PodList{}
	if err := s.client.List(ctx, pods); err != nil {
		return 0, err
	}
	running := 0
	for _, pod := range pods.Items {
		if pod.Annotations["rolled"] == "" || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		running++
		if pod.Annotations[v1alpha1.SeededAnnotation] != "" {
			seeded++
		}
	}
	if running < want {
		return 0, fmt.Errorf("%d of %d pods run", running, want)
	}
	return seeded, nil
}

// doubt has the usage source fail in each way, and looks at what becomes of the targets.
func (s *site) doubt(ctx context.Context, o options) error {
	if err := s.hasten(ctx, o.wrong); err != nil {
		return err
	}
	before, err := s.targets(ctx)
	if err != nil {
		return err
	}
	for _, wrong := range faults {
		cpu, _, _, err := s.operator.used()
		if err != nil {
			return err
		}
		s.history.is(wrong)
		if err := sleep(ctx, o.wrong); err != nil {
			return err
		}
		told, err := s.told(ctx)
		if err != nil {
			return err
		}
		targets, err := s.targets(ctx)
		if err != nil {
			return err
		}
		after, rss, _, err := s.operator.used()
		if err != nil {
			return err
		}
		n, first := changes(before, targets)
		say("a source that is "+string(wrong), "%d of %d targets changed%s; %.2f s of CPU, %.0f MiB; the policy says %q",
			n, len(before), first, (after - cpu).Seconds(), rss, told)
	}
	s.history.is(nothing)
	return nil
}

// hasten has the source asked every half a minute, so that what is wrong with it is met, and waits until everything is
// recommended by what it says of the last hour.
func (s *site) hasten(ctx context.Context, settle time.Duration) error {
	patch := client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"metricsSource":{"historyWindow":"1h","queryStep":"30s","minimumDataPoints":12}}}`))
	for _, p := range s.parts {
		policy := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "all"}}
		if err := s.client.Patch(ctx, policy, patch); err != nil {
			return err
		}
	}
	if err := awaited(ctx, "recommendations by the new settings", func() error { return s.allOf(ctx, 2) }); err != nil {
		return err
	}
	return sleep(ctx, settle)
}

// allOf checks that all recommendations are of this generation of their policies.
func (s *site) allOf(ctx context.Context, generation int64) error {
	list := &v1alpha1.AttuneRecommendationList{}
	if err := s.client.List(ctx, list); err != nil {
		return err
	}
	for _, rec := range list.Items {
		if rec.Spec.Policy.Generation < generation {
			return fmt.Errorf("%s/%s is of generation %d", rec.Namespace, rec.Name, rec.Spec.Policy.Generation)
		}
	}
	return nil
}

// changes counts the targets that are others now, or gone, and tells one.
func changes(before, after map[string][]v1alpha1.ContainerTarget) (n int, example string) {
	for name, was := range before {
		now := after[name]
		same := slices.EqualFunc(was, now, func(a, b v1alpha1.ContainerTarget) bool {
			return equality.Semantic.DeepEqual(a.Target, b.Target)
		})
		if same {
			continue
		}
		if n++; n == 1 {
			example = fmt.Sprintf(" (one from %s to %s)", text(was), text(now))
		}
	}
	return n, example
}

// text is what the targets of a workload's containers ask for.
func text(targets []v1alpha1.ContainerTarget) string {
	var parts []string
	for _, t := range targets {
		raw, err := json.Marshal(t.Target)
		if err != nil {
			panic("plain data always marshals: " + err.Error())
		}
		parts = append(parts, t.Name+" "+string(raw))
	}
	return strings.Join(parts, ", ")
}

// told is what the first policy says of itself.
func (s *site) told(ctx context.Context) (string, error) {
	policy := &v1alpha1.AttunePolicy{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.parts[0].namespace, Name: "all"}, policy); err != nil {
		return "", err
	}
	ready := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return "nothing yet", nil
	}
	return ready.Message, nil
}
