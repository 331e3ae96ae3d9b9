package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/tuning"
	"attune.io/attune/usage"
)

// mostLooks limits how often one pass reads unknowns. Each read answers all unknowns of a decision, and its result
// may cause a few new ones. Without other workloads that take the same room, a decision settles much sooner.
const mostLooks = 5

// decided is a decision together with the tokens that it took from the rate limit of new resizes. Tokens of writes
// that are not sent are returned (carryOutDecision).
type decided struct {
	tuning.Decision
	// turns is the number of tokens; 0: none were taken.
	turns int
	// target is when another pass is needed for the target of an HPA (followTarget); 0: none.
	target time.Duration
}

// decide calls tuning.Decide repeatedly until the decision can be carried out. Each round ends in the first case that
// applies:
//  1. The decision has unknowns: they are read, and it is computed again.
//  2. It is of a whole pass and too soon to be written (early): it is returned without taking room or
//     tokens from others.
//  3. Another workload has reserved room meanwhile: the reservations are read again, and it is computed again.
//  4. The rate limit is used up: it is computed again with Begin.Wait, so that it contains only what cannot
//     wait.
//  5. Otherwise it is settled.
//
// After mostLooks rounds it starts nothing new and decides the rest. Two workers never reserve the same room, because
// reservations.make compares versions under a mutex.
func (c *Controller) decide(ctx context.Context, w *tuning.View) decided {
	key := client.ObjectKeyFromObject(w.Rec)
	w.Begin.Reserved, w.Looked.Rooms = c.memory.reservations.read(), nil
	for range mostLooks {
		d := tuning.Decide(*w)
		switch {
		case c.looker().answer(ctx, w, d.Unknowns):
		case w.Part == tuning.WholePass && c.early(*w, d) > 0:
			return decided{Decision: d}
		case !c.memory.reservations.make(key, tuning.ReservationsOf(d.Status.Records, w.Pod), w.Begin.Reserved):
			w.Begin.Reserved, w.Looked.Rooms = c.memory.reservations.read(), nil
		case w.Begin.Wait == 0 && c.full(w, d.Begins()):
		default:
			return decided{Decision: d, turns: d.Begins()}
		}
	}
	return decided{Decision: c.decideWithoutNew(ctx, w)}
}

// full reports whether the rate limit of new resizes is used up, and stores in the view how long to wait.
func (c *Controller) full(w *tuning.View, begins int) bool {
	w.Begin.Wait = c.memory.limit.take(begins, w.Now)
	return w.Begin.Wait > 0
}

// decideWithoutNew decides about open records when the new part of a pass did not settle. One more read answers the
// unknowns of that smaller decision.
func (c *Controller) decideWithoutNew(ctx context.Context, w *tuning.View) tuning.Decision {
	incomplete.WithLabelValues("unsettled").Inc()
	log.FromContext(ctx).Info("Started no new resize: resizes of other workloads repeatedly took the free room", "attempts", mostLooks)
	w.Close(resize.RefuseForNow(resize.ReasonUnsettled, "resizes of other workloads repeatedly took the free room during this reconcile; attune tries again"))
	d := tuning.Decide(*w)
	if c.looker().answer(ctx, w, d.Unknowns) {
		d = tuning.Decide(*w)
	}
	c.memory.reservations.renew(client.ObjectKeyFromObject(w.Rec), tuning.ReservationsOf(d.Status.Records, w.Pod))
	return d
}

// looker reads the answers to tuning.Unknowns.
type looker struct {
	client  client.Reader
	live    client.Reader
	gauges  func(policy.Settings) (Gauge, error)
	answers *podAnswers
	seen    *seenGenerations
	// recently returns the source of the recent usage; nil: no raise is due.
	recently func(policy.Settings) (usage.Source, error)
}

func (c *Controller) looker() looker {
	return looker{c.Client, c.Live, c.Gauges, &c.memory.podAnswers, &c.memory.seenGenerations, c.Recently}
}

// answer reads the unknowns of a decision into the view; false: there are none. A failed read becomes a refusal in
// View.Looked.Unread and is not tried again in this pass, so that the loop in decide ends.
func (c looker) answer(ctx context.Context, w *tuning.View, asks tuning.Unknowns) bool {
	for _, node := range asks.Rooms {
		if err := c.room(ctx, w, node); err != nil {
			w.Looked.Unread.Nodes[node] = notKnown(ctx, "room", err)
		}
	}
	for _, uid := range asks.Live {
		if err := c.readLive(ctx, w, uid); err != nil {
			w.Looked.Unread.Pods[uid] = notKnown(ctx, "pod", err)
		}
	}
	if asks.Nodes {
		if err := c.allNodes(ctx, w); err != nil {
			w.Looked.Unread.Cluster = notKnown(ctx, "nodes", err)
		}
	}
	c.queryMemory(ctx, w, asks.Memory)
	c.queryLately(ctx, w, asks.Lately)
	c.readStartEvents(ctx, w, asks.Stalled)
	if len(asks.Before) > 0 {
		w.Looked.Before = c.queryBefore(ctx, w, asks.Before)
	}
	return !asks.None()
}

// room sums the resources of a node's pods, and the reservations of other workloads.
func (c looker) room(ctx context.Context, w *tuning.View, node string) error {
	pods, err := lookup.PodsOnNode(ctx, c.client, node)
	if err != nil {
		return fmt.Errorf("listing pods of node %s: %w", node, err)
	}
	podview.SetIn(&w.Looked.Rooms, node, resize.RoomOf(pods, w.Begin.Reserved.OnNode(node), w.Now))
	return nil
}

// allNodes lists the nodes of the cluster. The objects belong to the cache: do not change them.
func (c looker) allNodes(ctx context.Context, w *tuning.View) error {
	list := &corev1.NodeList{}
	if err := c.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	w.Looked.Cluster = podview.Pointers(list.Items)
	return nil
}

// readLive replaces the cached pod in the view with the pod from the API server, or removes it if it is deleted. It
// clones the slice first, because an earlier view may share it.
func (c looker) readLive(ctx context.Context, w *tuning.View, uid types.UID) error {
	i := slices.IndexFunc(w.Pods, func(p *corev1.Pod) bool { return p.UID == uid })
	if i < 0 {
		return nil
	}
	now, err := livePod(ctx, c.live, w.Pods[i])
	if err != nil {
		return err
	}
	w.Looked.Live[uid] = true
	if now != nil {
		c.seen.record(now, w.Now)
	}
	w.Pods = slices.Clone(w.Pods)
	if now == nil {
		w.Pods = slices.Delete(w.Pods, i, i+1)
	} else {
		w.Pods[i] = now
	}
	return nil
}

// queryMemory queries the memory of all given pods' containers, in one request. It reuses answers that are younger than
// memoryLasts. A pod without data gets an empty answer: its limit is not lowered.
func (c looker) queryMemory(ctx context.Context, w *tuning.View, pods []types.UID) {
	if len(pods) == 0 {
		return
	}
	var unknown []types.UID
	for _, uid := range pods {
		if last, known := c.answers.memoryHeld.read(uid, memoryLasts, w.Now); known {
			w.SetMemory(uid, last.of, last.soon)
		} else {
			unknown = append(unknown, uid)
		}
	}
	if len(unknown) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, measureFor)
	defer cancel()
	held, soon := c.queryGauge(ctx, w, unknown)
	for _, uid := range unknown {
		answer := heldNow{held[uid], soon && len(held[uid]) == 0}
		w.SetMemory(uid, answer.of, answer.soon)
		c.answers.memoryHeld.record(uid, answer, memoryLasts, w.Now) // empty answers too, or each pass would query again
	}
}

// queryBefore sends queries before a resize. Without a source it returns no results, and the resize begins without them.
func (c looker) queryBefore(ctx context.Context, w *tuning.View, asked []harm.Question) map[harm.Question]harm.Answer {
	if c.gauges == nil {
		return map[harm.Question]harm.Answer{}
	}
	ctx, cancel := context.WithTimeout(ctx, measureFor)
	defer cancel()
	gauge, err := c.gauges(w.Policy.Settings)
	return answersOf(ctx, gauge, err, asked, w.Now)
}

// queryGauge queries the policy's usage source for the memory of pods, in bytes. nil: the source did not answer. soon:
// it will have more within seconds (usage.ErrSoon).
func (c looker) queryGauge(ctx context.Context, w *tuning.View, pods []types.UID) (held map[types.UID]map[string]recommender.Amount, soon bool) {
	if c.gauges == nil {
		return nil, false
	}
	gauge, err := c.gauges(w.Policy.Settings)
	if err != nil {
		return nil, false
	}
	var names []string
	for _, uid := range pods {
		if pod := w.Pod(uid); pod != nil {
			names = append(names, pod.Name)
		}
	}
	answer, err := gauge.Memory(ctx, w.Rec.Namespace, names, w.Policy.Settings.Resize.RateWindow, w.Now)
	if soon = errors.Is(err, usage.ErrSoon); err != nil && !soon {
		return nil, false
	}
	held = map[types.UID]map[string]recommender.Amount{}
	for _, uid := range pods {
		if pod := w.Pod(uid); pod != nil {
			held[uid] = amounts(answer[pod.Name])
		}
	}
	return held, soon
}

// amounts converts measured values, without NaN and infinities.
func amounts(values map[string]float64) map[string]recommender.Amount {
	out := map[string]recommender.Amount{}
	for name, value := range values {
		if !math.IsNaN(value) && !math.IsInf(value, 0) {
			out[name] = recommender.Amount(value)
		}
	}
	return out
}

// livePod reads a pod from the API server, without the cache. It is used before steps that a later read cannot
// correct, such as closing a record. nil without an error: the pod is deleted, or another pod has its name.
func livePod(ctx context.Context, live client.Reader, pod *corev1.Pod) (*corev1.Pod, error) {
	now := &corev1.Pod{}
	if err := live.Get(ctx, client.ObjectKeyFromObject(pod), now); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading pod %s from the API server: %w", pod.Name, err)
	}
	if now.UID != pod.UID {
		return nil, nil
	}
	return now, nil
}

// decideUrgent decides what cannot wait for the rest of a pass; false: there is nothing. The pass ends with that
// decision, and the next one follows at once.
//
// A container that is about to be OOM-killed is treated like one that was.
//
// The order: first open records, from the pods alone; then the autoscalers are read (up to 10 seconds); then
// responses to OOM kills. If the autoscalers cannot be listed, the rest of the pass starts nothing new, but still
// responds to kills.
func (c *Controller) decideUrgent(ctx context.Context, w *tuning.View) (decided, bool) {
	kills := slices.ContainsFunc(w.Pods, tuning.Killed)
	c.observeClimbs(ctx, w)
	c.observeKills(ctx, w)
	kills = w.Climbing() || kills
	if kills || len(w.Rec.Status.Records) > 0 {
		w.Part = tuning.OpenPart
		if d := c.decide(ctx, w); d.Presses(*w) {
			return d, true
		}
	}
	unlisted := c.observeAutoscalers(ctx, w)
	if kills {
		w.Part = tuning.UrgentPart
		if d := c.decide(ctx, w); len(d.Writes) > 0 {
			return d, true
		}
	}
	if unlisted != nil {
		w.Close(unlisted)
	}
	w.Part = tuning.WholePass
	return decided{}, false
}
