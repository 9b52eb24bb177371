/**
 * For reading back what a recipe wrote, in order to show it: if the reading gets no answer, the write is done all the
 * same.
 */
export { orUnknown } from '../zookeeper/errors.js';
