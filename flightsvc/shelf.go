package flightsvc

import (
	"container/list"
	"crypto/rand"
	"sync"
	"time"
)

// shelf keeps things for clients between their calls: bounded for each owner,
// each thing for a time only. What is dropped, by whatever way, is given to
// drop exactly once, outside of all locks.
type shelf[T any] struct {
	keep     time.Duration // from the last use
	most     int           // things of one owner
	mostAll  int           // things of all owners
	drop     func(T)       // may be nil
	adding   sync.Mutex    // held by once
	mu       sync.Mutex
	things   map[string]*kept[T]
	byOwner  map[string]*list.List // of *kept[T], least recently used first
	byUse    list.List             // of *kept[T], least recently used first
	timer    *time.Timer
	isClosed bool
}

// kept is one thing with its place in both orders.
type kept[T any] struct {
	key, owner string
	thing      T
	until      time.Time
	mine, all  *list.Element
}

func newShelf[T any](keep time.Duration, most, mostAll int, drop func(T)) *shelf[T] {
	s := &shelf[T]{keep: keep, most: most, mostAll: mostAll, drop: drop, things: map[string]*kept[T]{}, byOwner: map[string]*list.List{}}
	s.byUse.Init()
	return s
}

// newKey makes a key that cannot be guessed: 130 random bits as 26 letters and
// digits.
func newKey() string { return rand.Text() }

// put adds a thing under a new key. What has not been used for longest makes
// room: clients crash, and some never close what they open.
func (s *shelf[T]) put(key, owner string, thing T) (until time.Time) {
	s.mu.Lock()
	dropped := s.expire(time.Now())
	k := &kept[T]{key: key, owner: owner, thing: thing}
	if old := s.things[key]; old != nil {
		dropped = append(dropped, s.remove(old))
	}
	mine := s.byOwner[owner]
	if mine == nil {
		mine = list.New()
		s.byOwner[owner] = mine
	}
	for mine.Len() >= s.most {
		dropped = append(dropped, s.remove(mine.Front().Value.(*kept[T])))
		s.byOwner[owner] = mine // remove forgets owners of nothing
	}
	for len(s.things) >= s.mostAll {
		dropped = append(dropped, s.remove(s.byUse.Front().Value.(*kept[T])))
	}
	s.byOwner[owner] = mine
	s.things[key] = k
	k.mine, k.all = mine.PushBack(k), s.byUse.PushBack(k)
	k.until = time.Now().Add(s.keep)
	if s.isClosed {
		dropped = append(dropped, s.remove(k))
	}
	s.wake()
	s.mu.Unlock()
	s.dropAll(dropped)
	return k.until
}

// once adds a thing unless there is one of the key, and gives what is there.
func (s *shelf[T]) once(key, owner string, thing T) T {
	s.adding.Lock()
	defer s.adding.Unlock()
	if have, _, ok := s.get(key, true); ok {
		return have
	}
	s.put(key, owner, thing)
	return thing
}

// get finds a thing; touch counts it as a use, which makes it stay longer.
func (s *shelf[T]) get(key string, touch bool) (thing T, until time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.things[key]
	if k == nil || !time.Now().Before(k.until) {
		return thing, until, false
	}
	if touch {
		k.until = time.Now().Add(s.keep)
		s.byOwner[k.owner].MoveToBack(k.mine)
		s.byUse.MoveToBack(k.all)
	}
	return k.thing, k.until, true
}

// take removes a thing without dropping it.
func (s *shelf[T]) take(key string) (thing T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.things[key]
	if k == nil {
		return thing, false
	}
	return s.remove(k), true
}

// dropOwner drops all that an owner has.
func (s *shelf[T]) dropOwner(owner string) {
	s.mu.Lock()
	var dropped []T
	for mine := s.byOwner[owner]; mine != nil && mine.Len() > 0; {
		dropped = append(dropped, s.remove(mine.Front().Value.(*kept[T])))
	}
	s.mu.Unlock()
	s.dropAll(dropped)
}

func (s *shelf[T]) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.things)
}

// close drops everything; what is put later is dropped at once.
func (s *shelf[T]) close() {
	s.mu.Lock()
	s.isClosed = true
	var dropped []T
	for _, k := range s.things {
		dropped = append(dropped, s.remove(k))
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.dropAll(dropped)
}

// remove takes a thing off under the lock.
func (s *shelf[T]) remove(k *kept[T]) T {
	delete(s.things, k.key)
	s.byUse.Remove(k.all)
	mine := s.byOwner[k.owner]
	if mine.Remove(k.mine); mine.Len() == 0 {
		delete(s.byOwner, k.owner)
	}
	return k.thing
}

// expire takes off what is over its time, under the lock. Use moves a thing to
// the back and its end with it, so the front ends first.
func (s *shelf[T]) expire(now time.Time) (dropped []T) {
	for e := s.byUse.Front(); e != nil; e = s.byUse.Front() {
		k := e.Value.(*kept[T])
		if now.Before(k.until) {
			break
		}
		dropped = append(dropped, s.remove(k))
	}
	return dropped
}

// wake sets the timer to the end of the front, under the lock.
func (s *shelf[T]) wake() {
	front := s.byUse.Front()
	if front == nil || s.isClosed {
		return
	}
	after := time.Until(front.Value.(*kept[T]).until)
	if s.timer == nil {
		s.timer = time.AfterFunc(after, s.sweep)
	} else {
		s.timer.Reset(after)
	}
}

func (s *shelf[T]) sweep() {
	s.mu.Lock()
	dropped := s.expire(time.Now())
	s.wake()
	s.mu.Unlock()
	s.dropAll(dropped)
}

func (s *shelf[T]) dropAll(things []T) {
	if s.drop == nil {
		return
	}
	for _, t := range things {
		s.drop(t)
	}
}
