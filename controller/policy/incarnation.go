package policy

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/lookup"
)

// incarnation is a namespace as it was last seen. A namespace that is deleted and created again with the same name is
// another one, with other programs.
type incarnation struct {
	uid types.UID
	// since is its creation, if another namespace of the name was seen before; zero: it was not.
	since time.Time
	// seen is when it was last read.
	seen time.Time
}

// next returns the incarnation after a namespace was read.
func (before incarnation) next(uid types.UID, created, now time.Time) incarnation {
	before.seen = now
	if before.uid != "" && before.uid != uid {
		before.since = created
	}
	before.uid = uid
	return before
}

// forgetNamespaceAfter is how long a namespace that no policy reads is remembered: longer than histories last.
const forgetNamespaceAfter = 35 * 24 * time.Hour

// since returns from when on usage belongs to a namespace; zero: all of it does, as far as is known. A restart forgets
// former namespaces: their usage then counts if the source still has it.
func (c *Controller) since(ctx context.Context, namespace string, now time.Time) (since time.Time, err error) {
	of := lookup.Namespace()
	err = client.IgnoreNotFound(c.Client.Get(ctx, client.ObjectKey{Name: namespace}, of, client.UnsafeDisableDeepCopy))
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("reading namespace %s: %w", namespace, err)
	case of.UID == "": // the policy is deleted with the namespace
		return time.Time{}, nil
	}
	if _, known := c.incarnations.Find(namespace); !known {
		c.incarnations.ForgetIf(func(_ string, old incarnation) bool { return now.Sub(old.seen) > forgetNamespaceAfter })
	}
	c.incarnations.Change(namespace, func(before incarnation) incarnation {
		after := before.next(of.UID, of.CreationTimestamp.Time, now)
		since = after.since
		return after
	})
	return since, nil
}
