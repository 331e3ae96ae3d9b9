package history

// greed is how many times what is left one namespace may hold, the α of the paper below. A namespace that is alone
// gets two thirds of the store. Five that take all they can get two elevenths each, and one that comes after them
// still finds room: what they have, they have taken from what is left for all.
//
// It is the dynamic threshold of shared packet buffers: A. K. Choudhury and E. L. Hahne, "Dynamic queue length
// thresholds for shared-memory packet switches", IEEE/ACM Transactions on Networking 6 (1998).
const greed = 2

// budget is the room for all histories of a store, in bytes. The store's mutex guards it and its shares.
//
// Invariant: left plus the sum of all held is the size of the store. left may fall below zero for a while, because
// the gaps of a block are kept even where its values find no room.
type budget struct {
	// left are the bytes that no namespace holds.
	left int64
	// shares of the namespaces that want something or hold something.
	shares map[string]*share
}

func newBudget(size int64) *budget { return &budget{left: size, shares: map[string]*share{}} }

// share is what one namespace holds of the budget, whatever the source: any number of policies have one between them.
type share struct {
	budget *budget
	// held bytes, of all sources.
	held int64
	// users are the sources of which the namespace wants something.
	users int
}

// join is the share of a namespace that begins to want something of a source.
func (b *budget) join(namespace string) *share {
	s := b.shares[namespace]
	if s == nil {
		s = &share{budget: b}
		b.shares[namespace] = s
	}
	s.users++
	return s
}

// leave a share that a source's histories had, once they are released.
func (b *budget) leave(namespace string) {
	s := b.shares[namespace]
	if s.users--; s.users == 0 {
		delete(b.shares, namespace)
	}
}

// left is how many bytes more the namespace may hold. The most is x with held + x = greed × (left − x).
func (s *share) left() int64 {
	return (greed*s.budget.left - s.held) / (1 + greed)
}

// take bytes, or give them back where there are fewer than none.
func (s *share) take(bytes int64) {
	s.held += bytes
	s.budget.left -= bytes
}
