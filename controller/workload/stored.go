package workload

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/loop"
	"attune.io/attune/resize/lifecycle"
)

// stored is the last write of this loop to each recommendation. An own write wakes no pass, no decision is based on a
// cache that does not show the write yet, and a second operator is noticed. If it is lost, one pass is made needlessly,
// and a second operator is noticed one change later.
type stored struct {
	board.Table[types.NamespacedName, wrote]
	// targets are the last changes of targets of HPAs. If they are lost, a change that was rejected or set back is sent
	// once more.
	targets board.Table[types.NamespacedName, targetChange]
}

// mostEchoes is how many own writes of one object are recognised: a pass writes at most twice, and their events may
// arrive after those of the next pass.
const mostEchoes = 4

// echoFor is how long the loop waits for the cache to show a write. After that it uses the cache, so that a broken
// watch does not stop the loop.
const echoFor = 5 * time.Second

// refusedFor is how long the loop waits for the cache after a conflict, while the cache does not show the newer
// version. After that it uses the cache here too.
const refusedFor = time.Minute

// echoEvery is the time until the loop first checks whether the cache shows the write; the time between later checks
// grows.
const echoEvery = 20 * time.Millisecond

// wrote holds the last writes of one object.
type wrote struct {
	// statuses are digests of the written statuses, the newest last, at most mostEchoes.
	statuses []string
	// version is the lowest resourceVersion that the object can have: after the last write, or as read after a
	// conflict. It was learned at the time at, and the loop waits for it for within.
	version string
	at      time.Time
	within  time.Duration
	// tookOver: a write stored this operator as the one that manages the workload.
	tookOver bool
}

// write records a status that is about to be written. It runs before the write, because the event may arrive before
// the answer.
func (x *stored) write(rec *v1alpha1.AttuneRecommendation, status v1alpha1.AttuneRecommendationStatus) {
	digest := digestOf(status)
	x.Change(client.ObjectKeyFromObject(rec), func(w wrote) wrote {
		w.statuses = append(slices.Clone(w.statuses), digest)
		w.statuses = w.statuses[max(0, len(w.statuses)-mostEchoes):]
		return w
	})
}

// reached records the lowest version that the object can have: after a write (for echoFor), or as read from the API
// server after a conflict (for refusedFor).
func (x *stored) reached(newest *v1alpha1.AttuneRecommendation, within time.Duration, now time.Time) {
	x.Change(client.ObjectKeyFromObject(newest), func(w wrote) wrote {
		w.version, w.at, w.within = newest.ResourceVersion, now, within
		return w
	})
}

// takeOver records that a write stored this operator as the one that manages the workload.
func (x *stored) takeOver(name types.NamespacedName) {
	x.Change(name, func(w wrote) wrote {
		w.tookOver = true
		return w
	})
}

// own reports whether the object's status is one that this loop wrote.
func (x *stored) own(rec *v1alpha1.AttuneRecommendation) bool {
	digest := digestOf(rec.Status)
	return slices.Contains(x.Of(client.ObjectKeyFromObject(rec)).statuses, digest)
}

// behind returns when to reconcile a recommendation again if the cached version is older than an own write, or than a
// version read after a conflict; 0: it is not older. Versions that are not numbers are not compared, and there is no
// wait after a clock was set back.
func (x *stored) behind(rec *v1alpha1.AttuneRecommendation, now time.Time) time.Duration {
	last := x.Of(client.ObjectKeyFromObject(rec))
	has, bad := strconv.ParseUint(rec.ResourceVersion, 10, 64)
	wrote, worse := strconv.ParseUint(last.version, 10, 64)
	age := now.Sub(last.at)
	if bad != nil || worse != nil || has >= wrote || age < 0 || age >= last.within {
		return 0
	}
	return max(echoEvery, age/4)
}

// digestOf returns a digest of a status as the API server stores it. Digests are kept instead of statuses, so that
// the memory does not grow with the size of the objects.
func digestOf(status v1alpha1.AttuneRecommendationStatus) string { return clip.Digest(status, 8) }

// generationsLast is how long a generation is remembered: much longer than the lag of a working cache.
const generationsLast = 10 * time.Minute

// seenGenerations are the generations of pods as the API server last returned them. The cache may briefly show an
// older one; a decision on that pod would repeat its last resize. If they are lost, a stale cache is used once.
type seenGenerations struct{ fresh[types.UID, int64] }

// record stores a pod from the API server. A generation lower than the known one is ignored.
func (x *seenGenerations) record(pod *corev1.Pod, now time.Time) {
	if !x.behind(pod) {
		x.fresh.record(pod.UID, pod.Generation, generationsLast, now)
	}
}

// behind reports whether the cached pod is older than the pod that the API server last returned; false if none is
// recorded.
func (x *seenGenerations) behind(pod *corev1.Pod) bool { return pod.Generation < x.Of(pod.UID).value }

// steps are records with progress that is not worth a write of its own, because the pod shows it again
// (lifecycle.Retold): that a resize was accepted and since when it is applied. The progress is stored with the next
// write. If it is lost, the resize is verified again.
type steps struct {
	board.Table[types.NamespacedName, []v1alpha1.ResizeRecord]
}

// record stores the records of a recommendation; without records, it drops the recommendation.
func (x *steps) record(name types.NamespacedName, records []v1alpha1.ResizeRecord) {
	if len(records) == 0 {
		x.Forget(name)
		return
	}
	x.Put(name, slices.Clone(records))
}

// recall applies the remembered progress to the records of a recommendation that was just read. It does not change a
// record that another replica has changed since.
func (x *steps) recall(rec *v1alpha1.AttuneRecommendation) {
	for _, known := range x.Of(client.ObjectKeyFromObject(rec)) {
		for i, stored := range rec.Status.Records {
			if stored.PodUID == known.PodUID && lifecycle.EqualApartFromProgress(stored, known) {
				rec.Status.Records[i] = *known.DeepCopy()
			}
		}
	}
}

// noNews reports that no change between two statuses must be stored.
func noNews(before, after v1alpha1.AttuneRecommendationStatus) bool {
	if !slices.EqualFunc(before.Records, after.Records, lifecycle.EqualApartFromProgress) {
		return false
	}
	before.Records, after.Records = nil, nil
	return equality.Semantic.DeepEqual(before, after)
}

// storer writes the status of a recommendation, and adds finalizers to the objects that an open record depends on.
type storer struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock
	// clusterwide: the loop watches cluster policies.
	clusterwide bool
	stored      *stored
	steps       *steps
}

func (c *Controller) storer() storer {
	return storer{c.Client, c.Live, c.Clock, c.Settings.Clusterwide, &c.memory.stored, &c.memory.steps}
}

// store writes the status with the resourceVersion that the decision is based on, and only if there are changes to
// store. A conflict is returned as an error. The finalizer exists exactly while a record is open, and is added before
// the first record is written: otherwise the object could be deleted between the two, and no process could restore
// its pods.
func (c storer) store(ctx context.Context, rec *v1alpha1.AttuneRecommendation, status v1alpha1.AttuneRecommendationStatus) error {
	if err := c.guard(ctx, rec, len(status.Records) > 0); err != nil {
		return err
	}
	name := client.ObjectKeyFromObject(rec)
	if noNews(rec.Status, status) {
		rec.Status = status
		c.steps.record(name, status.Records)
		return nil
	}
	c.stored.write(rec, status)
	takesOver := status.Operator != rec.Status.Operator
	rec.Status = status
	if err := c.client.Status().Update(ctx, rec); err != nil {
		c.refused(ctx, rec, err)
		return fmt.Errorf("storing the status of AttuneRecommendation %s: %w", rec.Name, err)
	}
	c.stored.reached(rec, echoFor, c.clock.Now())
	if takesOver {
		c.stored.takeOver(name)
	}
	c.steps.record(name, rec.Status.Records)
	return nil
}

// refused finds out whether a write was rejected because another writer was first and the cache does not show it yet.
// Every write at that version would be rejected too, so the loop waits for the cache. A conflict for another reason
// ends with the next attempt.
func (c storer) refused(ctx context.Context, rec *v1alpha1.AttuneRecommendation, err error) {
	if !apierrors.IsConflict(err) {
		return
	}
	newest := &v1alpha1.AttuneRecommendation{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(rec), newest); err == nil && newest.ResourceVersion != rec.ResourceVersion {
		c.stored.reached(newest, refusedFor, c.clock.Now())
	}
}

// guard adds the finalizer before a record is stored, and removes it after the last one is closed. In a terminating
// namespace it removes it at once: the pods are deleted too, and the permission to write there may be deleted first,
// so that a finalizer would block the deletion forever.
func (c storer) guard(ctx context.Context, rec *v1alpha1.AttuneRecommendation, open bool) error {
	terminating, err := lookup.Terminating(ctx, c.client, rec.Namespace)
	if err != nil {
		return err
	}
	open = open && !terminating
	if open && len(rec.Status.Records) == 0 {
		if err := c.guardPolicy(ctx, rec); err != nil {
			return err
		}
	}
	adds, removes := open && rec.DeletionTimestamp == nil, !open && len(rec.Status.Records) == 0 || terminating
	if !adds && !removes {
		return nil
	}
	before := rec.DeepCopy()
	changed, err := loop.Guard(ctx, c.client, rec, v1alpha1.RecordsFinalizer, adds)
	if err != nil {
		c.refused(ctx, before, err)
		return fmt.Errorf("updating the finalizer of AttuneRecommendation %s: %w", rec.Name, err)
	}
	if changed {
		c.stored.reached(rec, echoFor, c.clock.Now())
	}
	return nil
}

// guardPolicy adds a finalizer to the policy before a first record is stored, because the record's observation needs
// its settings. The policy loop removes it after the last record. A policy that is being deleted gets none, because
// it starts nothing.
func (c storer) guardPolicy(ctx context.Context, rec *v1alpha1.AttuneRecommendation) error {
	var p client.Object = &v1alpha1.AttunePolicy{}
	key := types.NamespacedName{Namespace: rec.Namespace, Name: rec.Spec.Policy.Name}
	if rec.Spec.Policy.Kind == v1alpha1.PolicyKindCluster {
		if !c.clusterwide {
			return nil
		}
		p, key.Namespace = &v1alpha1.AttuneClusterPolicy{}, ""
	}
	err := c.client.Get(ctx, key, p)
	if apierrors.IsNotFound(err) || err == nil && p.GetDeletionTimestamp() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := loop.Guard(ctx, c.client, p, v1alpha1.CleanupFinalizer, true); err != nil {
		return fmt.Errorf("adding the finalizer to policy %s: %w", p.GetName(), err)
	}
	return nil
}
